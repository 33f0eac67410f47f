// class: cpu
return /(?<=x(?:a|aa)+)$/.test('a'.repeat(80))
