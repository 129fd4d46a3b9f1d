// Shows the version of the list, both servers, and how the last check went.

const { list, checked, last, servers } = await chrome.runtime.sendMessage({})

const about =
  list === undefined ? 'The list cannot be reached now.' : `Version ${list.version}, ${list.entries} entries.`
const went = last === undefined ? '' : ` The last page could not be checked (${last}).`
document.querySelector('[role=status]').textContent = `${about} Pages checked: ${checked}.${went}`
for (const { server, says } of servers) {
  const item = document.createElement('li')
  item.textContent = `${server}: ${says}`
  document.querySelector('ul').append(item)
}
