// class: compile thrown ok memory cpu
// expand: X yield  150000
function* g() { @X@1 }
