// class: ok
JSON.stringify = () => 'broken';
JSON.parse = null;
return [1]
