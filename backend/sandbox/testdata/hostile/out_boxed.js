// class: ok output thrown
return [new Number(1), new String('x'), new Boolean(false), Object(1n)]
