// class: ok output thrown
BigInt.prototype.toJSON = () => ']'; return [1n]
