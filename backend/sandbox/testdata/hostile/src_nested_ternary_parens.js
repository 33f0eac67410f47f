// class: compile thrown ok memory
// expand: OPEN (1? 100000
// expand: CLOSE :2) 100000
return @OPEN@1@CLOSE@
