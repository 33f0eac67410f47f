// class: ok output
return new Uint8Array([1, 2])
