// class: thrown
return await import('node:fs')
