// class: ok thrown output
Object.prototype.get = () => 1; Object.prototype.set = () => 1; Object.prototype.writable = false; Object.prototype.enumerable = false; Object.prototype.value = 7; console.log('x'); try { await helix.state.keys() } catch (e) { e.name } return [1]
