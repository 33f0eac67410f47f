// class: ok memory thrown cpu
return new RegExp('(?:' + 'a{255}'.repeat(2e5) + '){255}')
