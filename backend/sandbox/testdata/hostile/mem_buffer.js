// class: memory
return new ArrayBuffer(1 << 30).byteLength
