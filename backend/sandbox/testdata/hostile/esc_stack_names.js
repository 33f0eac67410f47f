// class: thrown
const f = { ['\n    at <anonymous> (/etc/passwd:1:1)\n' + 'x'.repeat(1e4)]: () => { throw new Error('x') } }; Object.values(f)[0]()
