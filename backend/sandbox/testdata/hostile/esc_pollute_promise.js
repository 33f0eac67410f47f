// class: ok thrown output
Promise.prototype.then = function () { return 7 };
return 1
