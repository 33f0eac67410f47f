// class: compile thrown ok memory
// expand: OPEN (()=>{ 100000
// expand: CLOSE })() 100000
return @OPEN@1@CLOSE@
