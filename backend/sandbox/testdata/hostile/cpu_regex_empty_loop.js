// class: cpu ok
return /^(?:(?:)*?)*$(?:a*)*b/.test('a'.repeat(5e4))
