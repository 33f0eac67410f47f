// class: compile thrown ok memory cpu
// expand: X `` 150000
const f = () => f;
return typeof f@X@
