// class: thrown
throw new Error('a\0b\ud800c\u202e\u001b[31mred')
