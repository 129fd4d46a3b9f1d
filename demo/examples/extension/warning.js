// What a visitor of a listed page sees instead of it.

const address = decodeURIComponent(location.hash.slice(1))
document.querySelector('code').textContent = new URL(address).hostname
document.querySelector('[name=back]').addEventListener('click', () => {
  if (history.length > 2) history.go(-2)
  else location.replace('about:blank')
})
document.querySelector('[name=open]').addEventListener('click', () => chrome.runtime.sendMessage({ open: address }))
