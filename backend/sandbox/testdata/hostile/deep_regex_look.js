// class: thrown memory cpu
return new RegExp('(?=(?!(?<='.repeat(3e4) + ')))'.repeat(3e4))
