// class: thrown
return (() => {}).constructor('return 1')()
