// class: cpu
return /(?<=b(a+)+)c/.test('a'.repeat(45) + 'c')
