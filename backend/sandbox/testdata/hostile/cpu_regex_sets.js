// class: cpu
return /^[\p{L}--[a-z]]+([\p{L}]+)+$/v.test('Ä'.repeat(60) + '1')
