// class: thrown ok memory cpu
return new RegExp(Array.from({ length: 1e5 }, (_, i) => 'a' + i).join('|')).test('b')
