// class: compile thrown ok memory
// expand: OPEN { 100000
// expand: CLOSE } 100000
@OPEN@@CLOSE@
