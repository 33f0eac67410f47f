// class: memory thrown
return 'ab'.repeat(2 ** 29)[5]
