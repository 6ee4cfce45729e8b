'use strict';

const get = async (path, options) => (await fetch(`/api${path}`, options)).json();
const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });

async function show() {
  const [health, products, sold] = await Promise.all([get('/health'), get('/products'), get('/sold')]);
  document.querySelector('#workspace').textContent = health.workspace || '';
  document.querySelector('#sold').textContent = sold.join(', ') || 'nothing yet';
  document.querySelector('#products').replaceChildren(...products.map(line));
}

function line({ name, cents, stock }) {
  const item = document.createElement('li');
  const button = element('button', 'Buy');
  button.disabled = stock === 0;
  button.onclick = async () => { await get(`/buy/${name}`, { method: 'POST' }); show(); };
  item.append(element('span', name), element('span', (cents / 100).toFixed(2)), element('span', `${stock} left`), button);
  return item;
}

show();
