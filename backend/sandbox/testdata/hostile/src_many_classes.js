// class: ok compile thrown memory
// expand: X class A~{#x}; 20000
// within: 15s
// long: yes
@X@ return 1
