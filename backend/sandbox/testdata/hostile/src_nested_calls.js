// class: compile thrown ok memory
// expand: OPEN f( 100000
// expand: CLOSE ) 100000
const f = (x) => x;
return @OPEN@1@CLOSE@
