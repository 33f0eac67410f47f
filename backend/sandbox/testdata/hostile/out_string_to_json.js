// class: ok output thrown
String.prototype.toJSON = function () { return { s: 1 } }; return ['x']
