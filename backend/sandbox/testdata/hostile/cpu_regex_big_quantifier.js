// class: cpu thrown memory
return /(?:(?:(?:a{1000}){1000}){1000})/.test('a'.repeat(1e6)) || (() => { for (;;) {} })()
