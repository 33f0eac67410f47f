// class: thrown memory cpu ok
return new RegExp('['.repeat(1e5) + ']'.repeat(1e5), 'v')
