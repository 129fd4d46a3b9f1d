// VitePress's own theme, with the system's fonts.
import theme from 'vitepress/theme-without-fonts'
import './style.css'

export default theme
