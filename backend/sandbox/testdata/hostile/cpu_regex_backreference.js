// class: cpu
return /^(a+)(a+)(a+)(a+)\1\2\3\4(b)/.test('a'.repeat(400))
