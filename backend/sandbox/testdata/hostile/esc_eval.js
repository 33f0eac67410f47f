// class: thrown
return eval('1+1')
