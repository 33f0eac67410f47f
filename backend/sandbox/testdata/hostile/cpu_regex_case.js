// class: cpu
return /^(?:[a-z]|\p{Lu}|ſ|K)+(?:.+)+\d$/iu.test('k'.repeat(80))
