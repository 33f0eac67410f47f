// class: thrown memory
JSON.parse('{"a":['.repeat(5e5))
