// Stands for VitePress's links with icons, whose code could load icons from another host.
export default { render: () => null }
