// class: thrown
return Reflect.construct(Function, ['return 1'])()
