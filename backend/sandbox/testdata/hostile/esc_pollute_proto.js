// class: ok
Object.prototype.toJSON = undefined;
Object.prototype.json = '"forged"';
Array.prototype.join = () => 'x';
return { a: 1 }
