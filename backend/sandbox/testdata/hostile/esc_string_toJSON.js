// class: thrown ok
String.prototype.toJSON = () => '\u0000'; Number.prototype.toJSON = () => ({}); throw new Error('x')
