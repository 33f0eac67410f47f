// class: thrown
return require('fs')
