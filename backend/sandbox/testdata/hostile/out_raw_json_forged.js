// class: thrown output
return { a: JSON.rawJSON('1,"b":2') }
