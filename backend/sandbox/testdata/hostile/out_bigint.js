// class: output
return { n: 1n }
