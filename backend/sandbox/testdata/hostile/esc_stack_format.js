// class: thrown
const e = new Error('%s %d %n \n at evil (helix:1:1)'); e.stack = '(tool.js:99999999999999999999:18446744073709551616)\n'.repeat(300); throw e
