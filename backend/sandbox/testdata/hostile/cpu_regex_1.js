// class: cpu
/^(a+)+$/.test('a'.repeat(40) + '!')
