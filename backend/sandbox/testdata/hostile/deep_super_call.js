// class: thrown memory cpu
class A { get x() { return new A().x } } return new A().x
