// class: thrown
return console.log.constructor('return 1')()
