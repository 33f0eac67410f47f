// class: ok
return { get then() { return undefined }, a: 1 }
