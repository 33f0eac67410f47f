// class: thrown compile
return await import('x', { with: { get type() { for (;;) {} } } })
