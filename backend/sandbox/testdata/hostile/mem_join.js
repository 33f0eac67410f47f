// class: memory thrown cpu
return new Array(2 ** 31).join('abcdefgh').length
