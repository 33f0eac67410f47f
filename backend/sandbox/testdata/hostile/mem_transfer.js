// class: memory thrown
return new ArrayBuffer(8).transfer(2 ** 31 - 1).byteLength
