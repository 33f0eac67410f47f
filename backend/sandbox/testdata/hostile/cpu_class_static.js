// class: cpu
class A { static { for (;;) {} } }
