// class: ok thrown
RegExp.prototype.exec = RegExp.prototype.test = () => { throw 1 }; String.prototype.slice = () => 'x'; Object.keys = null; return { 'a b': { c: 1 } }
