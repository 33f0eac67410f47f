// class: thrown ok memory cpu
return JSON.parse('['.repeat(5e3) + ']'.repeat(5e3), (k, v) => v).length
