// class: thrown ok memory cpu
return /(?:(?:a|b|c)*)*$/.test('abc'.repeat(3e5))
