// class: output memory cpu
return new Array(5e6).fill(0)
